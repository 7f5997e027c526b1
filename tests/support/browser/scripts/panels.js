// Each panel: its link, its command, and all text of its content, but for pictures and for commands.
const visible = (content) => {
  const found = [];
  const walker = document.createTreeWalker(content, NodeFilter.SHOW_TEXT);
  while (walker.nextNode())
    if (!walker.currentNode.parentElement.closest("svg, code, option")) found.push(walker.currentNode.data.trim());
  return found.filter((text) => text);
};
return [...document.querySelectorAll(".panel")].filter((panel) => panel.querySelector(".menu a")).map((panel) => ({
  id: panel.id, link: panel.querySelector(".menu a").getAttribute("href"), command: panel.querySelector(".menu code").textContent,
  texts: visible(panel.querySelector(".content"))}));
