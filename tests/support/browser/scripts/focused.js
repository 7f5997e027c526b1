// What has the focus: its tag, id, text and link, and whether that can be seen.
const one = document.activeElement;
const style = getComputedStyle(one);
return { tag: one.tagName, id: one.id, text: one.textContent.trim().slice(0, 200), href: one.getAttribute("href") ?? "",
  seen: one !== document.body && style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0 };
