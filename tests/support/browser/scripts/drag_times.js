// Put the slider on one offset after the other; the milliseconds until the frame that shows each is drawn.
const [offsets, done] = arguments;
const slider = document.getElementById("slider");
(async () => {
  const took = [];
  for (const offset of offsets) {
    const begun = performance.now();
    slider.value = offset;
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    await new Promise((resolve) =>
      requestAnimationFrame(() => {
        const channel = new MessageChannel();
        channel.port1.onmessage = resolve;
        channel.port2.postMessage(0);
      }),
    );
    took.push(performance.now() - begun);
  }
  done(took);
})();
