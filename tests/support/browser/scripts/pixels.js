// The colour of each cell at the middle of its upper edge, below the line of an edge, and the palette: no mark is there.
const map = document.querySelector("cluster-map");
const style = getComputedStyle(map);
const pixels = map.canvas.getContext("2d").getImageData(0, 0, map.canvas.width, map.canvas.height);
const hex = (name) => style.getPropertyValue(name).trim();
const at = (x, y) => {
  const first = 4 * (y * map.canvas.width + x);
  return "#" + [...pixels.data.slice(first, first + 3)].map((one) => one.toString(16).padStart(2, "0")).join("");
};
const found = [];
for (let index = 0; index < map.nodes.length; index += 1) {
  const x = Math.round(map.arranged.at[2 * index] + map.arranged.size / 2);
  const y = Math.round(map.arranged.at[2 * index + 1]);
  const upper = at(x, y);
  found.push([map.nodes[index], upper === hex("--quiet") ? at(x, y + 1) : upper]);
}
const tokens = ["empty", "low", "high", "full", "cordoned", "bad"];
return [found, Object.fromEntries(tokens.map((token) => [hex(`--class-${token}`), token]))];
