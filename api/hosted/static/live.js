// Mounts the acquirer's form for the card and exchanges what is typed there for
// a token. The form is in a frame of the acquirer's: this page sees the token only.
(function () {
  "use strict";

  var page = window.checkoutForm;
  if (!page) { return; }

  var byId = function (id) { return document.getElementById(id); };
  var box = byId("card"), data = box.dataset, button = byId("pay-button"), loading = byId("card-loading"), away = byId("away");
  var loadTime = 30000, tokenTime = 60000; // milliseconds
  var lang = document.documentElement.lang;
  var stripe, elements, card, late, tries = 0;
  // What the list of faults leads to.
  var field = { id: "card", focus: function () { if (card) { card.focus(); } } };

  // The colors are the page's, which has the merchant's among them.
  var dark = matchMedia("(prefers-color-scheme: dark)");
  function appearance() {
    var css = getComputedStyle(document.documentElement);
    var color = function (name) { return css.getPropertyValue("--" + name).trim(); };
    return {
      theme: dark.matches ? "night" : "stripe",
      labels: "above",
      disableAnimations: matchMedia("(prefers-reduced-motion: reduce)").matches,
      variables: {
        fontFamily: getComputedStyle(document.body).fontFamily, fontSizeBase: "16px", borderRadius: "8px",
        colorBackground: color("field"), colorText: color("text"), colorTextSecondary: color("soft"),
        colorTextPlaceholder: color("soft"), colorPrimary: color("ring"), colorDanger: color("bad")
      },
      rules: {
        ".Input": { border: "1px solid " + color("edge"), boxShadow: "none" },
        ".Input:focus": { border: "1px solid " + color("ring"), boxShadow: "0 0 0 1px " + color("ring") },
        ".Input--invalid": { border: "1px solid " + color("bad"), boxShadow: "0 0 0 1px " + color("bad") },
        ".Label": { color: color("text"), fontSize: "15px", fontWeight: "500" }
      }
    };
  }
  dark.addEventListener("change", function () { if (elements) { elements.update({ appearance: appearance() }); } });

  // during makes a callback do nothing once its try to load is over.
  function during(then) {
    var mine = tries;
    return function () { if (mine === tries) { then(); } };
  }

  function end() {
    tries++;
    clearTimeout(late);
    loading.hidden = true;
  }

  function fail() {
    end();
    remove();
    button.disabled = true;
    away.hidden = false;
  }

  function remove() {
    if (card) { card.destroy(); }
    card = elements = null;
  }

  function load() {
    end();
    away.hidden = true;
    loading.hidden = false;
    late = setTimeout(during(fail), loadTime);
    if (window.Stripe) { mount(); return; }
    var script = document.createElement("script");
    script.src = data.script;
    script.onload = during(mount);
    script.onerror = during(fail);
    document.head.appendChild(script);
  }

  function mount() {
    try {
      stripe = window.Stripe(data.key, { locale: lang });
      elements = stripe.elements({
        mode: "payment", amount: +data.amount, currency: data.currency.toLowerCase(), paymentMethodTypes: ["card"],
        locale: lang, appearance: appearance()
      });
      // Our own field asks for the address. Wallets are not offered.
      card = elements.create("payment", {
        fields: { billingDetails: { email: "never" } },
        wallets: { applePay: "never", googlePay: "never", link: "never" }
      });
      card.on("ready", during(function () { end(); button.disabled = false; }));
      card.on("loaderror", during(fail));
      card.mount(box);
    } catch (e) {
      fail();
    }
  }

  // fault returns what the customer reads about an error. The frame itself says what is
  // missing there. Of the others, only this kind is written for customers.
  function fault(error) {
    if (error && error.type === "validation_error") { return ""; }
    return error && error.type === "card_error" && error.message || page.texts.cardFault;
  }

  page.before = function () {
    return new Promise(function (keep, refuse) {
      var slow = setTimeout(refuse, tokenTime);
      elements.submit().then(function (checked) {
        if (checked.error) { throw checked.error; }
        return stripe.createConfirmationToken({
          elements: elements,
          params: { payment_method_data: { billing_details: { email: byId("email").value.trim() } } }
        });
      }).then(function (got) {
        if (got.error) { throw got.error; }
        return got.confirmationToken.id;
      }).then(keep, refuse).then(function () { clearTimeout(slow); });
    }).then(function (token) { byId("confirmation_token").value = token; }, function (error) {
      throw [field, fault(error)];
    });
  };
  page.ended = function () { end(); remove(); away.hidden = true; };

  byId("again").addEventListener("click", load);
  load();
})();
