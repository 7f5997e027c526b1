// Facet -> value -> its numbers, as the page shows them.
return Object.fromEntries([...document.querySelectorAll("#facets .facet")].map((facet) => [
  facet.querySelector("h3").textContent,
  Object.fromEntries([...facet.querySelectorAll("li")].map((one) => [
    one.firstElementChild.textContent,
    [...one.querySelectorAll("b, small")].map((text) => Number(text.textContent.replace(/,/g, "").split(" ")[0])),
  ])),
]));
