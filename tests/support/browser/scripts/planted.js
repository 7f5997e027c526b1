// What the policy must refuse: an inline script, a style attribute, eval, HTML from text, a foreign image.
const done = arguments[0];
const plant = (make) => { try { make(); } catch { /* refused */ } };
// In a task of its own: what the driver evaluates itself is exempt from the policy.
setTimeout(() => {
  plant(() => { const one = document.createElement("script"); one.append("globalThis.ran = 1"); document.head.append(one); });
  plant(() => document.body.setAttribute("style", "color: red"));
  plant(() => eval("globalThis.ran = 1"));
  plant(() => { document.body.insertAdjacentHTML("beforeend", "<b>x</b>"); });
  plant(() => { const one = new Image(); one.src = "http://127.0.0.1:1/x.png"; document.body.append(one); });
}, 0);
setTimeout(() => done([globalThis.ran ?? 0, [...new Set(globalThis.violations.splice(0).map((text) => text.split(" ")[0]))].sort()]), 500);
