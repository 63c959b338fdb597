// The fields of a card in test mode: groups of digits, brands, and the same
// checks as the server's.
(function () {
  "use strict";

  var page = window.checkoutForm;
  if (!page) { return; }

  var texts = page.texts, now = page.now;
  var byId = function (id) { return document.getElementById(id); };
  var number = byId("card_number"), exp = byId("exp"), cvc = byId("cvc"), name = byId("name");

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

  // A Japanese keyboard types wide digits. The field has ordinary ones before anything reads it.
  function typed(field, then) {
    function read(event) {
      if (event.isComposing) { return; }
      var plain = field.value.normalize("NFKC"), at = field.selectionStart;
      if (plain !== field.value) {
        field.value = plain;
        if (document.activeElement === field) { field.setSelectionRange(at, at); }
      }
      then(event);
    }
    field.addEventListener("input", read);
    field.addEventListener("compositionend", read);
  }
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
  typed(number, function (event) {
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

  typed(cvc, function () {});
  typed(exp, function (event) {
    var d = digits(exp.value), after = digitsBefore(exp);
    if (/[^\d\s\/.-]/.test(exp.value) || d.length > 4) { return; }
    if (event.inputType && event.inputType.indexOf("delete") === 0) {
      rewrite(exp, d.length > 2 ? d.slice(0, 2) + " / " + d.slice(2) : d, after);
      return;
    }
    if (exp.selectionStart !== null && exp.selectionStart < exp.value.length && document.activeElement === exp) { return; } // mended in the middle
    var pasted = /^\s*(\d)\s*[\/.-]\s*(\d\d)\s*$/.exec(exp.value);
    if (pasted) { d = "0" + d; }
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
  function nameFault() { return name.value.trim() ? "" : texts.nameMissing; }

  page.check(number, numberFault);
  page.check(exp, expFault);
  page.check(cvc, cvcFault);
  page.check(name, nameFault);
  page.ended = function () {
    number.value = cvc.value = "";
    showBrand(other);
  };
  if (number.value) { number.dispatchEvent(new Event("input")); } // the browser may have filled it in
})();
