// The CSV of rows with formulas, quotes and missing values.
const done = arguments[0];
const main = document.querySelector('script[type=module]').src;
import(main.replace("main.js", "panel.js")).then((panel) =>
  done(panel.csv([{ name: "=1+1", value: -5, text: 'a "b", c', at: "@x" }, { name: "+2", value: null, text: "-3" }])));
