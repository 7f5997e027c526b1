// Whether the left and the right end of the time axis have the colour of a wall, from top to bottom.
const strip = document.querySelector("time-strip");
const { canvas } = strip;
const probe = canvas.cloneNode().getContext("2d");
probe.fillStyle = getComputedStyle(strip).getPropertyValue("--bad").trim();
const wanted = [1, 3, 5].map((at) => parseInt(probe.fillStyle.slice(at, at + 2), 16));
return [1, canvas.width - 2].map((x) => {
  const { data } = canvas.getContext("2d").getImageData(x, 0, 1, canvas.height);
  return data.every((value, at) => at % 4 === 3 || Math.abs(value - wanted[at % 4]) < 9);
});
