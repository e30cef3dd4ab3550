/**
 * The anchor that GitHub makes of a heading. The site uses the same ones, so that a link to a heading works in both
 * places.
 *
 * @param {string} heading its text, without the addresses of links in it
 * @returns {string}
 */
export function githubAnchor(heading) {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-');
}
