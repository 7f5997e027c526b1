// From now on, what the map shows whenever it is drawn while a film plays: offset, names, letters, labels of the letters.
globalThis.film = [];
const map = document.querySelector("cluster-map");
new MutationObserver(() => {
  if (document.querySelector(".steps [aria-label=pause]") === null) return;
  const offset = Number(document.getElementById("slider").value);
  film.push([offset, map.nodes, map.dataset.drawn, map.picture.classes.map((one) => [one.letter, one.label])]);
}).observe(map, { attributeFilter: ["data-drawn"] });
