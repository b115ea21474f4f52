// The heights of a long list's items, with sums in logarithmic time (a Fenwick tree).

export class Heights {
  #heights;
  // Node i holds the sum of the heights that end at i; the number of them is the lowest bit of i.
  #sums;

  constructor(heights = []) {
    this.#heights = heights;
    this.#build();
  }

  get length() {
    return this.#heights.length;
  }

  get total() {
    return this.offset(this.length);
  }

  get(index) {
    return this.#heights[index];
  }

  set(index, height) {
    const change = height - this.#heights[index];
    this.#heights[index] = height;
    for (let node = index + 1; node <= this.length; node += node & -node) this.#sums[node] += change;
  }

  // Return the sum of the heights before an index.
  offset(index) {
    let sum = 0;
    for (let node = index; node > 0; node -= node & -node) sum += this.#sums[node];
    return sum;
  }

  // Return the index of the item at a position; the nearest item if the position is outside.
  indexAt(position) {
    let node = 0;
    let rest = position;
    for (let step = highestBit(this.length); step > 0; step >>= 1) {
      if (node + step <= this.length && this.#sums[node + step] <= rest) {
        node += step;
        rest -= this.#sums[node];
      }
    }
    return Math.max(0, Math.min(node, this.length - 1));
  }

  append(heights) {
    for (const height of heights) {
      this.#heights.push(height);
      const node = this.length;
      // The nodes below this one are complete, so its sum is theirs and its own height.
      let sum = height;
      for (let below = node - 1; below > node - (node & -node); below -= below & -below) sum += this.#sums[below];
      this.#sums.push(sum);
    }
  }

  prepend(heights) {
    this.#heights = [...heights, ...this.#heights];
    this.#build();
  }

  #build() {
    this.#sums = [0, ...this.#heights];
    for (let node = 1; node <= this.length; node += 1) {
      const above = node + (node & -node);
      if (above <= this.length) this.#sums[above] += this.#sums[node];
    }
  }
}

function highestBit(number) {
  return number ? 1 << (31 - Math.clz32(number)) : 0;
}
