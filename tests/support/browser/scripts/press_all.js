// Press every button of the page that is there now, and return their texts.
const buttons = [...document.querySelectorAll("button:not([disabled])")];
for (const button of buttons) button.click();
return buttons.map((button) => button.innerText.trim() || button.getAttribute("aria-label"));
