// Press the pointer on the slider, or release it.
const kind = arguments[0] ? "pointerdown" : "pointerup";
document.getElementById("slider").dispatchEvent(new PointerEvent(kind, { bubbles: true }));
