// Makes the page nicer; everything works without it. The server checks every
// field again and decides everything. card.js adds the fields of a card in test
// mode, live.js the acquirer's form in live mode.
(function () {
  "use strict";

  var body = document.body;
  var data = body.dataset;
  var byId = function (id) { return document.getElementById(id); };

  // A page that comes back from the browser's memory may be out of date.
  window.addEventListener("pageshow", function (event) {
    if (event.persisted) { location.reload(); }
  });

  // Moments are shown in the customer's own time.
  document.querySelectorAll("time[data-local]").forEach(function (time) {
    var format = { day: "numeric", month: "long", year: "numeric", hour: "2-digit", minute: "2-digit", timeZoneName: "short" };
    var lang = document.documentElement.lang;
    time.textContent = new Intl.DateTimeFormat(lang === "en" ? "en-GB" : lang, format).format(new Date(time.dateTime));
  });

  // status calls back with the answer, or null and after how many milliseconds
  // to ask again.
  function status(then) {
    fetch(data.poll, { headers: { Accept: "application/json" }, cache: "no-store", credentials: "omit" }).then(function (r) {
      if (!r.ok) { then(null, 1000 * (r.headers.get("Retry-After") || 0)); return; }
      return r.json().then(function (s) { then(s, 0); });
    }).catch(function () { then(null, 0); });
  }

  // Polling: the page goes on as soon as what it waits for has happened.
  var happened = {
    processing: function (s) { return s.status !== "pending" || !s.payment_in_flight || s.action; },
    checking: function (s) { return !s.checking; },
    action: function (s) { return s.status !== "pending" || !s.payment_in_flight || !s.action; }
  }[data.state];
  if (happened && data.poll) {
    var wait = 1000;
    var poll = function () {
      status(function (s, later) {
        if (s && happened(s)) { location.replace(s.not_possible ? "?not_possible" : data.next); return; }
        wait = Math.min(wait * 1.3, 5000);
        setTimeout(poll, Math.max(wait, later));
      });
    };
    setTimeout(poll, wait);
  }

  if ("forward" in data && byId("continue")) { location.replace(byId("continue").href); }

  // The receipt. Only a completed session has the merchant's address.
  var print = byId("print"), stay = byId("stay"), soon = byId("soon");
  var leaving = null;
  function stop() {
    if (leaving === null) { return; }
    clearInterval(leaving);
    leaving = null;
    stay.hidden = true;
    soon.textContent = soon.dataset.stays;
  }
  if (data.redirect && byId("return")) {
    var seconds = 5;
    stay.hidden = false;
    stay.addEventListener("click", function () { stop(); byId("return").focus(); });
    leaving = setInterval(function () {
      if (--seconds <= 0) { clearInterval(leaving); location.replace(byId("return").href); return; }
      soon.textContent = soon.dataset.soon.replace(/%(\[1\])?s/, function () { return soon.dataset.host; }).replace(/%(\[2\])?d/, seconds);
    }, 1000);
  }
  if (print) {
    print.hidden = false;
    print.addEventListener("click", function () { stop(); window.print(); });
  }

  var form = byId("pay");
  if (!form) { return; }

  var texts = JSON.parse(form.dataset.texts);
  var button = byId("pay-button");
  var email = byId("email");
  var label = button.firstElementChild.textContent;
  form.noValidate = true;

  // The server's clock. Neither of the browser's may be trusted alone: one stands
  // still while the computer sleeps, the other can be set.
  var clock = byId("countdown");
  var ends, serverNow, ticks, wall;
  function setClock(now, end) {
    serverNow = Date.parse(now);
    ends = Date.parse(end);
    ticks = performance.now();
    wall = Date.now();
  }
  function now() { return serverNow + Math.max(performance.now() - ticks, Date.now() - wall); }
  setClock(clock.dataset.now, clock.getAttribute("datetime"));

  var expired = false, paying = false, asking = false;
  var said = ends - now() <= 60000 ? 2 : ends - now() <= 300000 ? 1 : 0;

  function two(n) { return (n < 10 ? "0" : "") + n; }
  function say(what) { byId("announce").textContent = what; }

  function expire() {
    expired = true;
    if (paying) { return; }
    byId("expired").hidden = false;
    document.title = byId("expired").dataset.title;
    document.querySelector("h1").textContent = texts.expired;
    document.querySelectorAll(".left, .returns, #test-card, #faults, #decline").forEach(function (e) { e.hidden = true; });
    Array.prototype.forEach.call(form.elements, function (e) { e.disabled = true; });
    page.ended();
    button.firstElementChild.textContent = texts.expired;
    form.hidden = document.querySelector(".small").hidden = true;
  }

  // At the end, when this tab is in front again, and three times a minute while it is,
  // the server is asked: another tab may have paid, the merchant may have expired the
  // session, and this clock may be wrong.
  function look(over) {
    if (asking || paying || expired || (document.hidden && !over)) { return; }
    asking = true;
    status(function (s) {
      asking = false;
      if (paying) { return; }
      if (s && (s.payment_in_flight || (s.status !== "pending" && s.status !== "expired"))) { location.replace(data.next); return; }
      if (s && s.status === "pending") { setClock(s.now, s.expires_at); return; }
      if (over || s) { expire(); }
    });
  }
  document.addEventListener("visibilitychange", function () { look(false); });

  function tick() {
    if (expired) { return; }
    var seconds = Math.max(0, Math.ceil((ends - now()) / 1000));
    clock.textContent = Math.floor(seconds / 60) + ":" + two(seconds % 60);
    if (seconds % 20 === 0) { look(seconds === 0); }
    if (seconds <= 60 && said < 2) { said = 2; say(texts.oneMinute); }
    else if (seconds <= 300 && said < 1) { said = 1; say(texts.fiveMinutes); }
    setTimeout(tick, 1000);
  }

  var checks = [];
  function mark(field, fault) {
    byId(field.id + "-error").textContent = fault;
    if (fault) { field.setAttribute("aria-invalid", "true"); } else { field.removeAttribute("aria-invalid"); }
  }
  // check adds a check of a field: fault returns "" or what is wrong. A field
  // complains when it is left with something in it, and stops as soon as it is
  // right.
  function check(field, fault) {
    checks.push([field, fault]);
    field.addEventListener("blur", function () { if (field.value.trim()) { mark(field, fault()); } });
    field.addEventListener("input", function () { if (field.hasAttribute("aria-invalid") && !fault()) { mark(field, ""); } });
  }
  check(email, function () {
    var s = email.value.trim();
    if (!s) { return texts.emailMissing; }
    return /^[^\s@]+@[^\s@]+$/.test(s) ? "" : texts.emailBad;
  });

  // A fault is said beside its field. Above the form the page says that there are
  // several, or what is wrong with no field of this page.
  function summary(faults) {
    var other = faults.filter(function (f) { return !byId(f[0].id + "-error"); });
    byId("faults").querySelector("p").textContent = other.length ? other[0][1] : "";
    byId("faults").hidden = !other.length && faults.length < 2;
    byId("decline").hidden = true;
  }

  function pay(on) {
    paying = button.disabled = on;
    button.classList.toggle("busy", on);
    button.firstElementChild.textContent = on ? texts.paying : label;
    if (on) { say(texts.paying); }
  }

  function alarm(heading, text) {
    var box = byId("decline");
    if (!box.hidden && box.querySelector("strong").textContent === heading) { return; } // said once
    document.title = box.dataset.title.replace("%", function () { return heading; });
    box.querySelector("strong").textContent = heading;
    box.querySelector("p").textContent = text;
    box.hidden = false;
    box.focus(); // read out first
  }

  // online calls then when the line is back, at once if it never was away.
  function online(then) {
    if (navigator.onLine) { then(); return; }
    alarm(texts.offline, texts.offlineText);
    window.addEventListener("online", function () { byId("decline").hidden = true; then(); }, { once: true });
  }

  // The form is sent without leaving the page, so that what the customer typed
  // stays after a decline and while there is no line. It may be sent several times: it
  // is the same payment, which is never made twice. An answer that is no JSON is a
  // page, which the browser gets by sending the form itself.
  function send() {
    fetch(form.action, { method: "POST", headers: { Accept: "application/json" }, body: new URLSearchParams(new FormData(form)) }).then(function (r) {
      if (!r.ok) { form.submit(); return; }
      return r.json().then(answered);
    }).catch(function () {
      alarm(texts.offline, texts.offlineText);
      setTimeout(function () { online(send); }, 2000);
    });
  }

  function answered(a) {
    if (a.next) { location.assign(a.next); return; }
    byId("decline").hidden = true;
    pay(false);
    if (expired) { expire(); return; }
    form.elements.attempt.value = a.attempt;
    form.elements.payment.value = a.payment;
    var faults = (a.faults || []).map(function (f) { return [byId(f.field), f.message]; });
    faults.forEach(function (f) { mark(f[0], f[1]); });
    summary(faults);
    if (faults.length > 0) { faults[0][0].focus(); return; }
    // The one field to fill in again is asked for beside it.
    var empty = (a.empty || []).map(byId).filter(Boolean);
    empty.forEach(function (field) {
      field.value = "";
      field.dispatchEvent(new Event("input"));
    });
    if (empty.length === 1) {
      mark(empty[0], a.reason);
      empty[0].focus();
      return;
    }
    alarm(a.alert, a.reason);
  }

  form.addEventListener("submit", function (event) {
    event.preventDefault();
    if (paying || expired) { return; }
    var faults = [];
    checks.forEach(function (c) {
      var fault = c[1]();
      mark(c[0], fault);
      if (fault) { faults.push([c[0], fault]); }
    });
    summary(faults);
    if (faults.length > 0) {
      faults[0][0].focus();
      return;
    }
    pay(true);
    online(function () {
      if (!page.before) { send(); return; }
      page.before().then(send, function (fault) {
        pay(false);
        if (expired) { expire(); return; }
        summary([fault]);
        fault[0].focus();
      });
    });
  });

  // What card.js and live.js use, and what they set.
  var page = window.checkoutForm = {
    texts: texts,
    now: now,
    check: check,
    ended: function () {}, // called when the time is over
    before: null           // returns a promise: the form is sent when it is kept; it is broken with a field and its fault
  };

  tick();
})();
