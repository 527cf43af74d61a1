// The data of the page: read, decompressed and parsed when they are wanted.

// RFC 1951, for browsers without DecompressionStream.
function inflate(bytes) {
  let at = 0, held = 0, count = 0;
  let out = new Uint8Array(bytes.length * 4), end = 0;
  const room = (n) => {
    if (end + n <= out.length) return;
    const larger = new Uint8Array(Math.max(out.length * 2, end + n));
    larger.set(out.subarray(0, end));
    out = larger;
  };
  const bits = (n) => {
    while (count < n) { held |= bytes[at++] << count; count += 8; }
    const value = held & ((1 << n) - 1);
    held >>>= n;
    count -= n;
    return value;
  };
  const tree = (lengths) => {
    const counts = new Uint16Array(16), offsets = new Uint16Array(16), symbols = new Uint16Array(lengths.length);
    for (const length of lengths) counts[length]++;
    counts[0] = 0;
    for (let k = 1; k < 15; k++) offsets[k + 1] = offsets[k] + counts[k];
    lengths.forEach((length, symbol) => { if (length) symbols[offsets[length]++] = symbol; });
    return { counts, symbols };
  };
  const symbol = ({ counts, symbols }) => {
    let code = 0, first = 0, index = 0;
    for (let length = 1; length < 16; length++) {
      code |= bits(1);
      if (code - counts[length] < first) return symbols[index + code - first];
      index += counts[length];
      first = (first + counts[length]) << 1;
      code <<= 1;
    }
    throw new Error("the data of this page are damaged");
  };
  const LENGTHS = [3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258];
  const DISTANCES = Array.from({ length: 30 }, (_, k) => k < 4 ? k + 1 : ((2 + (k & 1)) << ((k >> 1) - 1)) + 1);
  const fixed = () => {
    const lengths = new Uint8Array(288).fill(8, 0, 144).fill(9, 144, 256).fill(7, 256, 280).fill(8, 280);
    return [tree(lengths), tree(new Uint8Array(30).fill(5))];
  };
  const dynamic = () => {
    const literals = bits(5) + 257, distances = bits(5) + 1, codes = bits(4) + 4;
    const lengths = new Uint8Array(19);
    for (let k = 0; k < codes; k++) lengths[[16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15][k]] = bits(3);
    const coder = tree(lengths), found = new Uint8Array(literals + distances);
    for (let k = 0; k < found.length;) {
      const one = symbol(coder);
      if (one < 16) { found[k++] = one; continue; }
      const [value, times] = one === 16 ? [found[k - 1], 3 + bits(2)] : [0, one === 17 ? 3 + bits(3) : 11 + bits(7)];
      found.fill(value, k, k + times);
      k += times;
    }
    return [tree(found.subarray(0, literals)), tree(found.subarray(literals))];
  };
  for (let last = false; !last;) {
    last = bits(1) === 1;
    const kind = bits(2);
    if (kind === 0) {
      held = count = 0;
      const length = bytes[at] | bytes[at + 1] << 8;
      room(length);
      out.set(bytes.subarray(at + 4, at + 4 + length), end);
      at += 4 + length;
      end += length;
      continue;
    }
    const [literal, distance] = kind === 1 ? fixed() : dynamic();
    for (let one; (one = symbol(literal)) !== 256;) {
      if (one < 256) { room(1); out[end++] = one; continue; }
      const k = one - 257, length = LENGTHS[k] + (k < 8 || k === 28 ? 0 : bits((k >> 2) - 1));
      const d = symbol(distance), back = DISTANCES[d] + (d < 4 ? 0 : bits((d >> 1) - 1));
      room(length);
      for (let n = 0; n < length; n++, end++) out[end] = out[end - back];
    }
  }
  return out.subarray(0, end);
}

function gunzip(bytes) {
  // Written by us: a header of ten bytes, and eight at the end.
  return inflate(bytes.subarray(10, bytes.length - 8));
}

async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  if (typeof DecompressionStream === "undefined") return JSON.parse(new TextDecoder().decode(gunzip(bytes)));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

const parts = new Map();

// Part 0 is what is shown first; the others are recorded graphs and modules.
function part(number) {
  if (!parts.has(number)) parts.set(number, unpacked(document.getElementById(`part-${number}`).textContent));
  return parts.get(number);
}
