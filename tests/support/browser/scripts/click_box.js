// Click into the box of a domain on the map, at its name.
const map = document.querySelector("cluster-map");
const box = map.arranged.boxes.find((one) => one.label === arguments[0]);
const { left, top } = map.canvas.getBoundingClientRect();
map.canvas.dispatchEvent(new MouseEvent("click", { bubbles: true, clientX: left + box.x + 6, clientY: top + box.y + 6 }));
