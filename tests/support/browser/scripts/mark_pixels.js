// The marks of classes with these looks and of so many without one, each as it is drawn in grey on the smallest square.
const [looks, refused, done] = arguments;
const main = document.querySelector('script[type=module]').src;
import(main.replace("main.js", "palette.js")).then(({ cell, tokens }) => {
  const classes = [...looks, ...Array(refused).fill("")].map((look, index) => ({ letter: String(index), label: `refused: ${index}`, look }));
  const marks = new Set([...tokens(classes).values()].map(({ mark }) => mark));
  done([...marks].map((mark) => {
    const canvas = Object.assign(document.createElement("canvas"), { width: 8, height: 8 });
    cell(canvas.getContext("2d"), 0, 0, 8, "#666", mark, "#fff", "#000");
    return [mark, canvas.toDataURL()];
  }));
});
