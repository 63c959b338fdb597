// Makes the page nicer; everything works without it. The server checks every
// field again and decides everything.
(function () {
  "use strict";

  var body = document.body;
  var data = body.dataset;
  var byId = function (id) { return document.getElementById(id); };

  // A page that comes back from the browser's memory may be out of date.
  window.addEventListener("pageshow", function (event) {
    if (event.persisted) { location.reload(); }
  });

  function status() {
    return fetch(data.poll, { headers: { Accept: "application/json" }, cache: "no-store", credentials: "omit" })
      .then(function (r) { return r.ok ? r.json() : null; }, function () { return null; });
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
      status().then(function (s) {
        if (s && happened(s)) { location.replace(data.next); return; }
        wait = Math.min(wait * 1.3, 5000);
        setTimeout(poll, wait);
      });
    };
    setTimeout(poll, wait);
  }

  if ("forward" in data && byId("continue")) { location.replace(byId("continue").href); }

  // Only a completed session has this address.
  if (data.redirect && byId("return")) {
    setTimeout(function () { location.replace(byId("return").href); }, 3000);
  }

  var form = byId("pay");
  if (!form) { return; }

  var texts = JSON.parse(form.dataset.texts);
  var button = byId("pay-button");
  var number = byId("card_number"), exp = byId("exp"), cvc = byId("cvc"), email = byId("email");
  form.noValidate = true;

  // Countdown, by the server's clock.
  var clock = byId("countdown");
  var left = Date.parse(clock.getAttribute("datetime")) - Date.parse(clock.dataset.now);
  var started = performance.now();
  var expired = false, paying = false, said = left <= 60000 ? 2 : left <= 300000 ? 1 : 0;

  function two(n) { return (n < 10 ? "0" : "") + n; }
  function say(what) { byId("announce").textContent = what; }

  function expire() {
    expired = true;
    clock.textContent = "0:00";
    if (paying) { return; }
    byId("expired").hidden = false;
    if (byId("decline")) { byId("decline").hidden = true; }
    Array.prototype.forEach.call(form.elements, function (e) { e.disabled = true; });
    number.value = cvc.value = byId("brand").textContent = "";
    button.firstElementChild.textContent = texts.expired;
    setTimeout(lookElsewhere, 3000);
  }

  function tick() {
    var seconds = Math.ceil((left - (performance.now() - started)) / 1000);
    if (seconds <= 0) { expire(); return; }
    clock.textContent = Math.floor(seconds / 60) + ":" + two(seconds % 60);
    if (seconds <= 60 && said < 2) { said = 2; say(texts.oneMinute); }
    else if (seconds <= 300 && said < 1) { said = 1; say(texts.fiveMinutes); }
    setTimeout(tick, 1000);
  }
  tick();

  // Another tab may have paid: looked at when this one is in front again, and at the end.
  function lookElsewhere() {
    if (document.hidden || paying) { return; }
    status().then(function (s) {
      if (s && !paying && (s.status !== "pending" || s.payment_in_flight)) { location.replace(data.next); }
    });
  }
  document.addEventListener("visibilitychange", lookElsewhere);

  // Card number: groups of four (Amex 4-6-5), and the brand by its first digits.
  var brands = [
    { name: "Visa", prefix: /^4/, lengths: [13, 16, 19], cvc: 3 },
    { name: "Mastercard", prefix: /^(5[1-5]|2[2-7])/, lengths: [16], cvc: 3 },
    { name: "Amex", prefix: /^3[47]/, lengths: [15], cvc: 4 },
    { name: "Discover", prefix: /^(6011|64|65)/, lengths: [16, 17, 18, 19], cvc: 3 },
    { name: "Diners Club", prefix: /^3[0689]/, lengths: [14, 15, 16, 17, 18, 19], cvc: 3 },
    { name: "JCB", prefix: /^35/, lengths: [16, 17, 18, 19], cvc: 3 },
    { name: "UnionPay", prefix: /^62/, lengths: [16, 17, 18, 19], cvc: 3 }
  ];
  var other = { name: "", lengths: [12, 13, 14, 15, 16, 17, 18, 19], cvc: 0 };

  function digits(s) { return s.replace(/\D/g, ""); }
  function brandOf(s) {
    for (var i = 0; i < brands.length; i++) { if (brands[i].prefix.test(s)) { return brands[i]; } }
    return other;
  }
  function grouped(s) {
    if (brandOf(s).name === "Amex") {
      return [s.slice(0, 4), s.slice(4, 10), s.slice(10, 19)].filter(Boolean).join(" ");
    }
    return (s.match(/.{1,4}/g) || []).join(" ");
  }
  // Rewrites a field and leaves the caret after the same digit.
  function rewrite(field, value) {
    if (field.value === value) { return; }
    var before = field.selectionStart === null ? field.value.length : digits(field.value.slice(0, field.selectionStart)).length;
    field.value = value;
    if (document.activeElement !== field) { return; }
    var at = 0;
    while (before > 0 && at < value.length) { if (/\d/.test(value[at])) { before--; } at++; }
    field.setSelectionRange(at, at);
  }

  number.addEventListener("input", function () {
    var d = digits(number.value).slice(0, 19);
    if (/[^\d\s-]/.test(number.value)) { return; }
    rewrite(number, grouped(d));
    var b = brandOf(d);
    byId("brand").textContent = b.name;
    byId("cvc-hint").textContent = b.cvc === 4 ? texts.cvcHintAmex : texts.cvcHint;
  });

  exp.addEventListener("input", function (event) {
    var d = digits(exp.value);
    if (/[^\d\s\/.-]/.test(exp.value) || d.length > 4) { return; }
    if (d.length === 1 && d > "1") { d = "0" + d; }
    else if (d.length === 1 && /^\d\s*\/$/.test(exp.value)) { d = "0" + d; }
    var deleting = event.inputType && event.inputType.indexOf("delete") === 0;
    if (d.length > 2) { rewrite(exp, d.slice(0, 2) + " / " + d.slice(2)); }
    else if (d.length === 2 && !deleting) { exp.value = d + " / "; }
  });

  // The same checks as the server's, so that a slip does not cost the card.
  function luhn(s) {
    var sum = 0;
    for (var i = 0; i < s.length; i++) {
      var d = +s[s.length - 1 - i];
      if (i % 2 && (d *= 2) > 9) { d -= 9; }
      sum += d;
    }
    return sum % 10 === 0;
  }
  function numberFault() {
    var s = number.value.replace(/[\s-]/g, ""), lengths = brandOf(s).lengths;
    if (!s) { return texts.numberMissing; }
    if (/\D/.test(s)) { return texts.numberDigits; }
    if (s.length > lengths[lengths.length - 1]) { return texts.numberLong; }
    if (lengths.indexOf(s.length) < 0) { return texts.numberShort; }
    return luhn(s) ? "" : texts.numberBad;
  }
  function expFault() {
    var s = exp.value.trim();
    if (!s) { return texts.expMissing; }
    var m = /^(\d{1,2})[\s\/.-]+(\d{2}|\d{4})$/.exec(s) || /^(\d{2})(\d{2}|\d{4})$/.exec(s);
    if (!m) { return texts.expFormat; }
    var month = +m[1], year = +m[2] + (m[2].length === 2 ? 2000 : 0);
    if (month < 1 || month > 12) { return texts.expMonth; }
    return Date.now() < Date.UTC(year, month, 1, 12) ? "" : texts.expPast;
  }
  function cvcFault() {
    var s = cvc.value.trim(), want = brandOf(digits(number.value)).cvc;
    if (!s) { return texts.cvcMissing; }
    if (/^\d+$/.test(s) && (want ? s.length === want : s.length === 3 || s.length === 4)) { return ""; }
    return want === 3 ? texts.cvcThree : want === 4 ? texts.cvcFour : texts.cvcEither;
  }
  function emailFault() {
    var s = email.value.trim();
    if (!s) { return texts.emailMissing; }
    return /^[^\s@]+@[^\s@]+$/.test(s) ? "" : texts.emailBad;
  }
  var checks = [[email, emailFault], [number, numberFault], [exp, expFault], [cvc, cvcFault]];

  function mark(field, fault) {
    byId(field.id + "-error").textContent = fault;
    if (fault) { field.setAttribute("aria-invalid", "true"); } else { field.removeAttribute("aria-invalid"); }
  }
  checks.forEach(function (c) {
    // A field complains when it is left with something in it, and stops as soon as it is right.
    c[0].addEventListener("blur", function () { if (c[0].value.trim()) { mark(c[0], c[1]()); } });
    c[0].addEventListener("input", function () { if (c[0].hasAttribute("aria-invalid") && !c[1]()) { mark(c[0], ""); } });
  });

  form.addEventListener("submit", function (event) {
    if (paying || expired) { event.preventDefault(); return; }
    var first = null;
    checks.forEach(function (c) {
      var fault = c[1]();
      mark(c[0], fault);
      if (fault && !first) { first = c[0]; }
    });
    if (first) {
      event.preventDefault();
      first.focus();
      return;
    }
    paying = true;
    button.disabled = true;
    button.classList.add("busy");
    button.firstElementChild.textContent = texts.paying;
    say(texts.paying);
  });

  if (number.value) { number.dispatchEvent(new Event("input")); } // the browser may have filled it in
})();
