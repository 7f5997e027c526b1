// Keep the offsets of the messages that the tab with the stream passes on.
globalThis.heads = [];
new BroadcastChannel("topolog-watch").onmessage = (event) => {
  if (event.data.kind === "head") globalThis.heads.push(Number(event.data.position.split("/")[1]));
};
