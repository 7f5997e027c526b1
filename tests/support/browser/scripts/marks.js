// For each part of the time axis between the offsets given: how many pixels of its marks have the colour given.
const strip = document.querySelector("time-strip");
const { canvas, first, last } = strip;
const [token, parts] = arguments;
const probe = canvas.cloneNode().getContext("2d");
probe.fillStyle = getComputedStyle(strip).getPropertyValue(token).trim();
probe.fillRect(0, 0, 1, 1);
const wanted = probe.getImageData(0, 0, 1, 1).data;
const x = (offset) => Math.round(((offset - first) / Math.max(1, last - first)) * canvas.width);
const [top, bottom] = [12, 19].map((y) => Math.round((y * canvas.height) / 40));
return parts.map(([from, to]) => {
  const { data } = canvas.getContext("2d").getImageData(x(from), top, Math.max(1, x(to) - x(from)), bottom - top);
  let found = 0;
  for (let at = 0; at < data.length; at += 4) if ([0, 1, 2, 3].every((part) => Math.abs(data[at + part] - wanted[part]) < 9)) found += 1;
  return found;
});
