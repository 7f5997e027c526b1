// Each panel, and each answer of a question inside of one: whether it has its JSON, its CSV and its command.
const within = (one) => [...one.querySelectorAll("a, button")].map((each) => each.textContent.trim());
return [...document.querySelectorAll(".panel:not(#what-if) > header, .forms")].map((one) => ({
  id: one.closest(".panel").id, command: one.querySelector("code")?.textContent ?? "",
  json: within(one).includes("as JSON"), csv: within(one).includes("as CSV")}));
