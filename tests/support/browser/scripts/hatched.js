// For each part of the time axis between the offsets given: how many pixels of its lower half have the colour of a gap.
const strip = document.querySelector("time-strip");
const { canvas, first, last } = strip;
const probe = canvas.cloneNode().getContext("2d");
probe.fillStyle = getComputedStyle(strip).getPropertyValue("--class-bad").trim();
const [red, green, blue] = [1, 3, 5].map((at) => parseInt(probe.fillStyle.slice(at, at + 2), 16));
const x = (offset) => Math.round(((offset - first) / Math.max(1, last - first)) * canvas.width);
return arguments[0].map(([from, to]) => {
  const { data } = canvas.getContext("2d").getImageData(x(from), canvas.height / 2, Math.max(1, x(to) - x(from)), canvas.height / 2);
  let found = 0;
  for (let at = 0; at < data.length; at += 4) {
    if (Math.abs(data[at] - red) + Math.abs(data[at + 1] - green) + Math.abs(data[at + 2] - blue) < 90) found += 1;
  }
  return found;
});
