// Each panel: its link, its command, and the cells that hold numbers.
return [...document.querySelectorAll(".panel")].filter((panel) => panel.querySelector(".menu a")).map((panel) => ({
  link: panel.querySelector(".menu a").getAttribute("href"), command: panel.querySelector(".menu code").textContent,
  cells: [...panel.querySelectorAll("td.n, .facts dd, .legend b")].map((cell) => cell.textContent)}));
