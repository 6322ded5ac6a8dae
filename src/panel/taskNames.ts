/** Name the boxes of task lists that JupyterLab rendered from Markdown, by the text beside them. */
export function nameTasks(rendered: HTMLElement): void {
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
