// The map after the next drawing: names, letters, and the labels of the letters.
const done = arguments[0];
requestAnimationFrame(() =>
  setTimeout(() => {
    const map = document.querySelector("cluster-map");
    done([map.nodes, map.dataset.drawn, map.picture.classes.map((one) => [one.letter, one.label])]);
  }, 20),
);
