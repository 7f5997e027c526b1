// What the policy must refuse, each in a task of its own: whether anything of it ran, and what was reported of each.
const done = arguments[0];
const planted = {
  "an inline script": () => { const one = document.createElement("script"); one.append("globalThis.ran = 1"); document.head.append(one); },
  "a style attribute": () => document.body.setAttribute("style", "color: red"),
  eval: () => eval("globalThis.ran = 1"),
  "HTML from text": () => document.body.insertAdjacentHTML("beforeend", "<b>x</b>"),
  "a foreign image": () => { const one = new Image(); one.src = "http://127.0.0.1:1/x.png"; document.body.append(one); },
};
const reported = {};
// What the driver evaluates itself is exempt from the policy, so that it is a task of the page.
setTimeout(async () => {
  for (const [name, plant] of Object.entries(planted)) {
    globalThis.violations.splice(0);
    try { plant(); } catch { /* refused */ }
    for (let left = 100; left && !globalThis.violations.length; left -= 1) await new Promise((resolve) => setTimeout(resolve, 50));
    reported[name] = [...new Set(globalThis.violations.splice(0).map((text) => text.split(" ")[0]))];
  }
  done([globalThis.ran ?? 0, reported]);
}, 0);
