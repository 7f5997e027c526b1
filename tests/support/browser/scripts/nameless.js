// What can be used and has no accessible name.
return [...document.querySelectorAll("a, button, input, select, textarea, [role=button]")].filter((one) =>
  !(one.textContent.trim() || one.getAttribute("aria-label") || one.labels?.length)).map((one) => one.outerHTML.slice(0, 120));
