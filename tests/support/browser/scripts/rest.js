// The page without the elements that a selector finds.
const rest = document.documentElement.cloneNode(true);
for (const one of rest.querySelectorAll(arguments[0])) one.remove();
return rest.outerHTML;
