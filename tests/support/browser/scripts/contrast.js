// Texts with less contrast than WCAG 2.2 AA asks for (1.4.3).
const parse = (text) => {
  const numbers = text.match(/[\d.]+/g).map(Number);
  return text.startsWith("color(srgb") ? [...numbers.slice(0, 3).map((one) => one * 255), numbers[3] ?? 1] : [...numbers.slice(0, 3), numbers[3] ?? 1];
};
const light = ([r, g, b]) => [r, g, b].map((one) => one / 255).map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4))
  .reduce((sum, one, index) => sum + one * [0.2126, 0.7152, 0.0722][index], 0);
const behind = (element) => {
  for (let one = element; one; one = one.parentElement) {
    const colour = parse(getComputedStyle(one).backgroundColor);
    if (colour[3] > 0.99) return colour;
  }
  return [255, 255, 255, 1];
};
const poor = [];
for (const element of document.querySelectorAll("main *, header *, .timebar *")) {
  const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
  if (!own || !element.checkVisibility() || element.closest(".reader")) continue;
  const [one, other] = [light(parse(getComputedStyle(element).color)), light(behind(element))];
  const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
  if (ratio < 4.5) poor.push(`${element.tagName}.${element.className} ${ratio.toFixed(2)} ${element.textContent.slice(0, 30)}`);
}
return poor;
