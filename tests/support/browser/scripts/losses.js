// Have "losses" collect what banners state about a lost connection from now on.
globalThis.losses = [];
new MutationObserver(() => {
  const banner = document.querySelector(".banner.lost");
  if (banner) losses.push(banner.innerText);
}).observe(document, { subtree: true, childList: true });
