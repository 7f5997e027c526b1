// @ts-check
/**
 * Nested boxes on shelves: every node an equal square in the box of its domain, in one order. The cells are as
 * large as the canvas allows, and no cell moves while only pods change.
 *
 * @typedef {{x: number, y: number, width: number, height: number, label: string, depth: number, domain: number}} Box
 * @typedef {{size: number, step: number, width: number, height: number, boxes: Box[], at: Float32Array}} Layout
 */

const LARGEST = 22;
const SMALLEST = 3;
const PADDING = 4;
const LABEL = 15;
const LETTER = 6.4;

/** @param {[string, number, number, number][]} domains @param {number} nodes @returns {Layout} */
export function arrange(domains, nodes, width, height) {
  const children = domains.map(() => []);
  const roots = [];
  domains.forEach(([, parent], index) => (parent < 0 ? roots : children[parent]).push(index));
  let low = SMALLEST;
  let high = LARGEST;
  let best = place(domains, children, roots, nodes, width, low);
  while (low <= high) {
    const size = (low + high) >> 1;
    const found = place(domains, children, roots, nodes, width, size);
    if (found.height <= height || size === SMALLEST) {
      best = found;
      low = size + 1;
    } else high = size - 1;
  }
  return best;
}

function place(domains, children, roots, nodes, width, size) {
  const gap = size > 12 ? 2 : 1;
  const step = size + gap;
  const padding = size > 6 ? PADDING : 2;
  /** @type {Box[]} */
  const boxes = [];
  const at = new Float32Array(nodes * 2);

  function cells(first, count, columns, x, y) {
    for (let index = 0; index < count; index += 1) {
      at[2 * (first + index)] = x + (index % columns) * step;
      at[2 * (first + index) + 1] = y + Math.floor(index / columns) * step;
    }
  }

  function measure(index, available, depth) {
    const [value, , , count] = domains[index];
    const inside = children[index];
    const title = depth === 0 || size >= 10 ? LABEL : 0;
    if (!inside.length) {
      const most = Math.max(1, Math.floor((available - 2 * padding + gap) / step));
      const named = title ? Math.ceil((Math.min(value.length, 14) * LETTER + 4) / step) : 1;
      // At the widest level a large box takes the whole width, and small ones share a shelf.
      const wide = depth === 0 && count * 2 > most;
      const columns = wide ? most : Math.min(most, Math.max(named, Math.ceil(Math.sqrt(count * 1.6))));
      return { index, depth, title, columns, width: columns * step - gap + 2 * padding, height: Math.ceil(count / columns) * step - gap + 2 * padding + title, parts: [] };
    }
    const parts = shelve(inside.map((child) => measure(child, available - 2 * padding, depth + 1)), available - 2 * padding);
    const named = Math.min(available, Math.ceil(value.length * LETTER) + 2 * padding);
    return { index, depth, title, columns: 0, width: Math.max(named, parts.width + 2 * padding), height: parts.height + 2 * padding + title, parts: parts.items };
  }

  function shelve(items, available) {
    const space = size > 6 ? 6 : 3;
    let x = 0, y = 0, shelf = 0, widest = 0;
    const placed = [];
    for (const item of items) {
      if (x && x + item.width > available) {
        x = 0;
        y += shelf + space;
        shelf = 0;
      }
      placed.push({ item, x, y });
      x += item.width + space;
      widest = Math.max(widest, x - space);
      shelf = Math.max(shelf, item.height);
    }
    return { items: placed, width: widest, height: y + shelf };
  }

  function put(box, x, y) {
    const [value, , first, count] = domains[box.index];
    boxes.push({ x, y, width: box.width, height: box.height, label: box.title ? value || "(no label)" : "", depth: box.depth, domain: box.index });
    if (box.columns) cells(first, count, box.columns, x + padding, y + padding + box.title);
    for (const part of box.parts) put(part.item, x + padding + part.x, y + padding + box.title + part.y);
  }

  if (!domains.length) {
    const columns = Math.max(1, Math.floor((width + gap) / step));
    cells(0, nodes, columns, 0, 0);
    return { size, step, width, height: Math.ceil(nodes / columns) * step, boxes, at };
  }
  const shelves = shelve(roots.map((root) => measure(root, width, 0)), width);
  for (const { item, x, y } of shelves.items) put(item, x, y);
  return { size, step, width: shelves.width, height: shelves.height, boxes, at };
}

/** The node under a point; -1 without one. */
export function hit(layout, count, x, y) {
  for (let index = 0; index < count; index += 1) {
    const left = layout.at[2 * index];
    const top = layout.at[2 * index + 1];
    if (x >= left && x < left + layout.step && y >= top && y < top + layout.step) return index;
  }
  return -1;
}

/** The nearest node in a direction, by place. */
export function neighbour(layout, count, from, dx, dy) {
  const x = layout.at[2 * from];
  const y = layout.at[2 * from + 1];
  let best = -1;
  let least = Infinity;
  for (let index = 0; index < count; index += 1) {
    const rx = layout.at[2 * index] - x;
    const ry = layout.at[2 * index + 1] - y;
    const along = rx * dx + ry * dy;
    const across = Math.abs(rx * dy) + Math.abs(ry * dx);
    if (along <= 0 || across > along * 2) continue;
    const cost = along + 4 * across;
    if (cost < least) [least, best] = [cost, index];
  }
  return best < 0 ? from : best;
}
