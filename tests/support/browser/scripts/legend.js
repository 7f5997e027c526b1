// The legend of the map: label, number, and the colour of the swatch where no mark is, below the line of an edge.
const quiet = getComputedStyle(document.querySelector("cluster-map")).getPropertyValue("--quiet").trim();
const hex = (data) => "#" + [...data.slice(0, 3)].map((one) => one.toString(16).padStart(2, "0")).join("");
return [...document.querySelectorAll("ul[aria-label=Legend] li")].map((row) => {
  const context = row.querySelector("canvas").getContext("2d");
  const [upper, next] = [2, 4].map((y) => hex(context.getImageData(14, y, 1, 1).data));
  return [row.querySelector("span").textContent, row.querySelector("b").textContent, upper === quiet ? next : upper];
});
