// Put the slider on an offset, as a pointer does.
const one = document.getElementById("slider");
one.value = arguments[0];
one.dispatchEvent(new Event("input", { bubbles: true }));
