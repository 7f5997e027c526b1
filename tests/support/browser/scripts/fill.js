// Give a field a value, as a user does.
const one = document.querySelector(arguments[0]);
one.value = arguments[1];
for (const name of ["input", "change"]) one.dispatchEvent(new Event(name, { bubbles: true }));
