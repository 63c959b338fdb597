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
        if (s && happened(s)) { location.replace(data.next); return; }
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
  var number = byId("card_number"), exp = byId("exp"), cvc = byId("cvc"), email = byId("email"), name = byId("name");
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
    byId("faults").hidden = true;
    if (byId("decline")) { byId("decline").hidden = true; }
    Array.prototype.forEach.call(form.elements, function (e) { e.disabled = true; });
    number.value = cvc.value = "";
    showBrand(other);
    button.firstElementChild.textContent = texts.expired;
    form.hidden = document.querySelector(".small").hidden = true;
  }

  // At the end, and when this tab is in front again, the server is asked: another
  // tab may have paid, and this clock may be wrong.
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
    if (seconds === 0) { look(true); }
    else if (seconds <= 60 && said < 2) { said = 2; say(texts.oneMinute); }
    else if (seconds <= 300 && said < 1) { said = 1; say(texts.fiveMinutes); }
    setTimeout(tick, 1000);
  }

  // Card number: groups of four (Amex 4-6-5), and the brand by its first digits.
  var brands = [
    { key: "visa", name: "Visa", prefix: /^4/, lengths: [13, 16, 19], cvc: 3 },
    { key: "mastercard", name: "Mastercard", prefix: /^(5[1-5]|2[2-7])/, lengths: [16], cvc: 3 },
    { key: "amex", name: "American Express", prefix: /^3[47]/, lengths: [15], cvc: 4 },
    { key: "discover", name: "Discover", prefix: /^(6011|64|65)/, lengths: [16, 17, 18, 19], cvc: 3 },
    { key: "diners", name: "Diners Club", prefix: /^3[0689]/, lengths: [14, 15, 16, 17, 18, 19], cvc: 3 },
    { key: "jcb", name: "JCB", prefix: /^35/, lengths: [16, 17, 18, 19], cvc: 3 },
    { key: "unionpay", name: "UnionPay", prefix: /^62/, lengths: [16, 17, 18, 19], cvc: 3 }
  ];
  var other = { key: "card", name: "", lengths: [12, 13, 14, 15, 16, 17, 18, 19], cvc: 0 };
  var all = document.querySelector(".brands");

  function digits(s) { return s.replace(/\D/g, ""); }
  function brandOf(s) {
    for (var i = 0; i < brands.length; i++) { if (brands[i].prefix.test(s)) { return brands[i]; } }
    return other;
  }
  function showBrand(b) {
    byId("brand-mark").setAttribute("href", "#mark-" + b.key);
    if (byId("brand").textContent !== b.name) { byId("brand").textContent = b.name; }
    if (b === other) { all.removeAttribute("data-brand"); } else { all.dataset.brand = b.key; }
    all.querySelectorAll("svg").forEach(function (mark) { mark.classList.toggle("found", mark.classList.contains("mark-" + b.key)); });
    byId("cvc-hint").textContent = b.cvc === 4 ? texts.cvcHintAmex : texts.cvcHint;
    cvc.maxLength = b.cvc || 4;
  }
  function grouped(s) {
    if (brandOf(s) === brands[2]) { return [s.slice(0, 4), s.slice(4, 10), s.slice(10)].filter(Boolean).join(" "); }
    return (s.match(/.{1,4}/g) || []).join(" ");
  }
  function digitsBefore(field) {
    return field.selectionStart === null ? digits(field.value).length : digits(field.value.slice(0, field.selectionStart)).length;
  }
  // Rewrites a field and leaves the caret after the same digit.
  function rewrite(field, value, after) {
    if (field.value === value) { return; }
    field.value = value;
    if (document.activeElement !== field) { return; }
    var at = 0;
    while (after > 0 && at < value.length) { if (/\d/.test(value[at])) { after--; } at++; }
    field.setSelectionRange(at, at);
  }

  var before = "";
  number.addEventListener("input", function (event) {
    if (event.isComposing) { return; }
    var d = digits(number.value), after = digitsBefore(number);
    showBrand(brandOf(d));
    if (/[^\d\s-]/.test(number.value) || d.length > 19) { before = d; return; } // whatever it is, it stays to be mended
    // Deleting a space means the digit beside it.
    if (d === before && event.inputType === "deleteContentBackward" && after > 0) {
      d = d.slice(0, after - 1) + d.slice(after);
      after--;
    } else if (d === before && event.inputType === "deleteContentForward") {
      d = d.slice(0, after) + d.slice(after + 1);
    }
    before = d;
    rewrite(number, grouped(d), after);
    showBrand(brandOf(d));
  });

  exp.addEventListener("input", function (event) {
    var d = digits(exp.value), after = digitsBefore(exp);
    if (event.isComposing || /[^\d\s\/.-]/.test(exp.value) || d.length > 4) { return; }
    if (event.inputType && event.inputType.indexOf("delete") === 0) {
      rewrite(exp, d.length > 2 ? d.slice(0, 2) + " / " + d.slice(2) : d, after);
      return;
    }
    if (exp.selectionStart !== null && exp.selectionStart < exp.value.length && document.activeElement === exp) { return; } // mended in the middle
    if ((d.length === 1 && (d > "1" || /^\d\s*[\/.-]/.test(exp.value))) || (d.length === 2 && +d > 12 && d[0] === "1")) { d = "0" + d; }
    if (d.length >= 2) { exp.value = d.slice(0, 2) + " / " + d.slice(2); }
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
    if (now() >= Date.UTC(year, month, 1, 12)) { return texts.expPast; }
    return year > new Date(now()).getUTCFullYear() + 30 ? texts.expFar : "";
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
  function nameFault() { return name.value.trim() ? "" : texts.nameMissing; }
  var checks = [[email, emailFault], [number, numberFault], [exp, expFault], [cvc, cvcFault], [name, nameFault]];

  function mark(field, fault) {
    byId(field.id + "-error").textContent = fault;
    if (fault) { field.setAttribute("aria-invalid", "true"); } else { field.removeAttribute("aria-invalid"); }
  }
  checks.forEach(function (c) {
    // A field complains when it is left with something in it, and stops as soon as it is right.
    c[0].addEventListener("blur", function () { if (c[0].value.trim()) { mark(c[0], c[1]()); } });
    c[0].addEventListener("input", function () { if (c[0].hasAttribute("aria-invalid") && !c[1]()) { mark(c[0], ""); } });
  });

  // All faults at once, above the form.
  function summary(faults) {
    var list = byId("faults").querySelector("ul");
    list.textContent = "";
    faults.forEach(function (f) {
      var link = document.createElement("a"), item = document.createElement("li");
      link.href = "#" + f[0].id;
      link.textContent = f[1];
      link.addEventListener("click", function (event) { event.preventDefault(); f[0].focus(); });
      item.appendChild(link);
      list.appendChild(item);
    });
    if (byId("decline")) { byId("decline").hidden = true; }
    byId("faults").hidden = faults.length === 0;
  }

  form.addEventListener("submit", function (event) {
    if (paying || expired) { event.preventDefault(); return; }
    var faults = [];
    checks.forEach(function (c) {
      var fault = c[1]();
      mark(c[0], fault);
      if (fault) { faults.push([c[0], fault]); }
    });
    summary(faults);
    if (faults.length > 0) {
      event.preventDefault();
      faults[0][0].focus();
      return;
    }
    paying = true;
    button.disabled = true;
    button.classList.add("busy");
    button.firstElementChild.textContent = texts.paying;
    say(texts.paying);
  });

  tick();
  if (number.value) { number.dispatchEvent(new Event("input")); } // the browser may have filled it in
})();
