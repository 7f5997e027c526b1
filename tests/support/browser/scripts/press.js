// Click the first button with a text, within what a selector finds; whether there is one.
const found = [...document.querySelectorAll(`:is(${arguments[1]}) button`)].find((one) => one.textContent.trim() === arguments[0]);
found?.click();
return Boolean(found);
