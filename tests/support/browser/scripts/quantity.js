// Quantities as the page shows them.
const [given, done] = arguments;
const main = document.querySelector('script[type=module]').src;
import(main.replace("main.js", "format.js")).then((format) => done(given.map(format.quantity)));
