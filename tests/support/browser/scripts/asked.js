// What the API answers to the question of a panel.
const [panel, done] = arguments;
fetch(document.querySelector(`${panel} .menu a`).href).then((reply) => reply.json()).then(done);
