// Placeholders that are wider than their fields.
const context = document.createElement("canvas").getContext("2d");
return [...document.querySelectorAll("input[placeholder]")].filter((field) => {
  const style = getComputedStyle(field);
  context.font = style.font;
  const space = field.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  return field.checkVisibility() && context.measureText(field.placeholder).width > space;
}).map((field) => `${field.id}: ${field.placeholder}`);
