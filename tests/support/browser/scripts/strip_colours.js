// The colours at the foot of the time strip, but for that of the hatching.
const probe = document.createElement("canvas").getContext("2d");
probe.fillStyle = getComputedStyle(document.querySelector("time-strip")).getPropertyValue("--class-bad").trim();
probe.fillRect(0, 0, 1, 1);
const hatching = `rgb(${[...probe.getImageData(0, 0, 1, 1).data.slice(0, 3)].join(", ")})`;
const canvas = document.querySelector("time-strip canvas");
const pixels = canvas.getContext("2d").getImageData(0, canvas.height - 1, canvas.width, 1).data;
const found = new Map();
for (let at = 0; at < pixels.length; at += 4) {
  if (pixels[at + 3] < 255) continue;
  const colour = `rgb(${pixels[at]}, ${pixels[at + 1]}, ${pixels[at + 2]})`;
  found.set(colour, (found.get(colour) ?? 0) + 1);
}
return [...found].filter(([, count]) => count > canvas.width / 40).filter(([colour]) => colour !== hatching).map(([colour]) => colour);
