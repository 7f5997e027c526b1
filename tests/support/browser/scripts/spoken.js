// The texts of what a screen reader speaks by itself when they change.
return [...document.querySelectorAll("[role=status], [role=alert], output, [aria-live]")].filter((one) => one.ariaLive !== "off").map((one) => {
  const spoken = one.cloneNode(true);
  for (const silent of spoken.querySelectorAll("[aria-live=off]")) silent.remove();
  return spoken.textContent.trim();
}).filter(Boolean);
