/** Make what JupyterLab rendered from Markdown accessible by keyboard and to screen readers. */
export function makeAccessible(rendered: HTMLElement): void {
  // Make wide tables scrollable by keyboard.
  rendered.querySelectorAll('table').forEach(table => {
    table.tabIndex = 0;
  });
  // The boxes of a task list are not labels of their text.
  rendered
    .querySelectorAll<HTMLInputElement>('li > input[type="checkbox"]')
    .forEach(box => {
      const text = [...box.parentElement!.childNodes]
        .filter(node => !/^(UL|OL)$/.test(node.nodeName))
        .map(node => node.textContent)
        .join('');
      box.setAttribute('aria-label', text.trim());
    });
}
