// What is wrong with how the page looks, by the places of its boxes: for test_browser_looks.py.
// A function of the fragment that the page should have; its problems as texts.
async (fragment) => {
  const problems = [];
  const isShown = (element) => element.checkVisibility({ visibilityProperty: true });
  const style = (element) => getComputedStyle(element);
  const ancestors = function* (element) { for (let at = element; at; at = at.parentElement) yield at; };
  const some = (element, condition) => [...ancestors(element)].some(condition);
  const isForEars = (element) => some(element, (at) => style(at).clipPath !== 'none');
  const scrolls = (element) => /auto|scroll/.test(style(element).overflowX + style(element).overflowY);
  const named = (element) => `${element.outerHTML.slice(0, 160)} in ${element.parentElement?.className}`;
  const note = (what, element) => problems.push(`${what}: ${named(element)}`);
  const elements = [...document.querySelectorAll('body *')].filter(
    (element) => isShown(element) && !isForEars(element) && !element.closest('svg'));

  if (location.hash !== fragment) problems.push(`another page: ${location.hash}`);
  if (document.documentElement.scrollWidth > innerWidth) problems.push('the page scrolls to the side');

  // Cut off: nothing but what ends in "…" and can be read elsewhere.
  for (const element of elements) {
    const { overflowX, overflowY, textOverflow, webkitLineClamp } = style(element);
    const cut = (overflow, inner, outer) => /hidden|clip/.test(overflow) && inner > outer + 1;
    if (cut(overflowX, element.scrollWidth, element.clientWidth)) {
      const isElsewhere = some(element, (at) => at.title || at.matches('summary')) || element.querySelector('[title]');
      if (textOverflow !== 'ellipsis') note('cut at the side', element);
      if (!isElsewhere) note('no way to read the rest', element);
    }
    const isCutBelow = cut(overflowY, element.scrollHeight, element.clientHeight);
    if (isCutBelow && webkitLineClamp === 'none') note('cut below', element);
  }

  // Text leaves no cell, button or tag.
  const boxed = 'td, th, button, a, select, summary, .tag, .badge, .mark';
  for (const element of elements.filter((one) => one.matches(boxed))) {
    const range = document.createRange();
    range.selectNodeContents(element);
    const isCut = [element, ...element.querySelectorAll('*')].some((one) => /hidden|clip/.test(style(one).overflowX));
    const [inner, outer] = [range.getBoundingClientRect(), element.getBoundingClientRect()];
    const isWithin = (box, left, right) => box.left >= left - 1 && box.right <= right + 1;
    if (!isCut && inner.width && !isWithin(inner, outer.left, outer.right)) note('leaves its box', element);
    if (!some(element, scrolls) && !isWithin(outer, 0, innerWidth)) note('outside of the window', element);
  }

  // Controls: apart from each other, and on top.
  const controls = elements.filter((element) => element.matches('a[href], button, input, select, summary'));
  const boxes = controls.map((element) => element.getBoundingClientRect());
  controls.forEach((element, i) => {
    const box = boxes[i];
    for (let j = i + 1; j < controls.length; j++) {
      const [width, height] = [['left', 'right'], ['top', 'bottom']].map(
        ([start, end]) => Math.min(box[end], boxes[j][end]) - Math.max(box[start], boxes[j][start]));
      if (width > 1 && height > 1 && !element.contains(controls[j])) note(`overlaps ${named(controls[j])}`, element);
    }
    const [line] = element.getClientRects();
    const [x, y] = [(line.left + line.right) / 2, (line.top + line.bottom) / 2];
    if (x < 0 || y < 0 || x >= innerWidth - 1 || y >= innerHeight - 1 || some(element.parentElement, scrolls)) return;
    const top = document.elementFromPoint(x, y);
    if (!element.contains(top) && !top?.contains(element)) note(`covered by ${top && named(top)}`, element);
  });

  // A text from elsewhere has its own direction and leaves that of its surroundings alone.
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text; (text = texts.nextNode());) {
    const element = text.parentElement;
    if (!/[\u0590-\u08ff]/.test(text.data) || !isShown(element)) continue;
    const isIsolated = (at) => /isolate|plaintext/.test(style(at).unicodeBidi) || style(at).display !== 'inline';
    const isolated = [...ancestors(element)].find(isIsolated);
    const directed = [...ancestors(element)].find((at) => at.dir);
    if (!element.closest('.foreign, [dir=auto], bdi, option')) note('no direction of its own', element);
    if (directed?.dir === 'auto') {
      const [first] = directed.textContent.match(/\p{L}/u);
      const expected = /[\u0590-\u08ff]/.test(first) ? 'rtl' : 'ltr';
      if (style(directed).direction !== expected) note(`not ${expected}`, directed);
      if (!directed.contains(isolated) && directed !== isolated) note('not isolated', directed);
    }
  }
  return problems;
}
