// Values as people read them. Times are in Unix seconds.

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

// Return how long ago a time was, such as "3m ago".
export function ago(seconds, now = Date.now() / 1000) {
  const age = Math.max(0, now - seconds);
  if (age < 5) return "now";
  return `${duration(age)} ago`;
}

// Return a length of time in its largest unit.
export function duration(seconds) {
  if (seconds < MINUTE) return `${Math.floor(seconds)}s`;
  if (seconds < HOUR) return `${Math.floor(seconds / MINUTE)}m`;
  if (seconds < DAY) return `${Math.floor(seconds / HOUR)}h`;
  return `${Math.floor(seconds / DAY)}d`;
}

// Return the local date and time.
export function exactTime(seconds) {
  return new Date(seconds * 1000).toLocaleString();
}

// Return an amount of US dollars; small amounts keep two significant digits.
export function money(dollars) {
  if (!dollars) return "$0";
  return dollars < 0.01 ? `$${dollars.toPrecision(2)}` : `$${dollars.toFixed(2)}`;
}

// Return a number with separators.
export function count(number) {
  return number.toLocaleString("en-US");
}

// Return a number and its noun.
export function plural(number, noun, many = `${noun}s`) {
  return `${count(number)} ${number === 1 ? noun : many}`;
}

// Return a number of bytes with its unit.
export function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB"];
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit ? value.toFixed(1) : value} ${units[unit]}`;
}
