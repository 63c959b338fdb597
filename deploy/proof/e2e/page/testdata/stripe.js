// Stands for Stripe.js: as much of it as the page uses. The card is typed into a
// frame of this script's origin.
(function () {
  "use strict";
  var origin = new URL(document.currentScript.src).origin;
  // For the test: what the page asked for, the frame's field with the focus, and what was typed there.
  window.options = window.frameFocus = window.frameTyped = null;
  window.Stripe = function (key, settings) {
    if (!/^pk_/.test(key)) { throw new Error("no publishable key"); }
    var frame, loaded = false, asked = {}, number = 0, heard = {};
    function ask(what, more) {
      return new Promise(function (keep) {
        asked[++number] = keep;
        frame.contentWindow.postMessage(Object.assign({ ask: what, number: number }, more), origin);
      });
    }
    window.addEventListener("message", function (event) {
      if (!frame || event.source !== frame.contentWindow || event.origin !== origin) { return; }
      if (event.data.focus) { window.frameFocus = event.data.focus; }
      if (event.data.typed) { window.frameTyped = event.data.typed; }
      if (event.data.height) { frame.style.height = event.data.height + "px"; }
      if (event.data.ready && heard.ready) { heard.ready({ elementType: "payment" }); }
      if (asked[event.data.number]) { asked[event.data.number](event.data.answer); }
    });
    return {
      elements: function (options) {
        window.options = { key: key, settings: settings, elements: options };
        return {
          create: function (type, more) {
            window.options.element = more;
            return {
              on: function (event, then) { heard[event] = then; },
              mount: function (box) {
                frame = document.createElement("iframe");
                frame.title = "Secure payment input frame";
                frame.style.cssText = "border: 0; width: 100%; height: 230px; display: block";
                frame.src = origin + "/frame";
                frame.addEventListener("load", function () {
                  loaded = true;
                  frame.contentWindow.postMessage({ look: options.appearance, lang: options.locale }, origin);
                });
                box.appendChild(frame);
              },
              focus: function () { frame.focus(); ask("focus"); },
              destroy: function () { frame.remove(); }
            };
          },
          update: function (changes) {
            Object.assign(options, changes);
            if (loaded) { frame.contentWindow.postMessage({ look: options.appearance }, origin); }
          },
          submit: function () { return ask("check"); }
        };
      },
      createConfirmationToken: function (given) { return ask("token", { params: given.params }); }
    };
  };
})();
