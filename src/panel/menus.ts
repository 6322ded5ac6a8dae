import { MenuSvg } from '@jupyterlab/ui-components';
import { CommandRegistry } from '@lumino/commands';

export interface IMenuEntry {
  readonly label: string;
  /** Shown as chosen among its neighbours. */
  readonly isToggled?: boolean;
  readonly isEnabled?: boolean;
  readonly run: () => void;
}

/** Open a menu below an element, or above it where there is no room; `null` is a separator. */
export function popUp(
  anchor: HTMLElement,
  entries: readonly (IMenuEntry | null)[]
): void {
  const commands = new CommandRegistry();
  const menu = new MenuSvg({ commands });
  menu.addClass('jp-prime-Menu');
  entries.forEach((entry, index) => {
    if (entry === null) {
      menu.addItem({ type: 'separator' });
      return;
    }
    const command = `entry-${index}`;
    commands.addCommand(command, {
      label: entry.label,
      isToggled: () => !!entry.isToggled,
      isEnabled: () => entry.isEnabled ?? true,
      execute: entry.run
    });
    menu.addItem({ command });
  });
  menu.aboutToClose.connect(() => {
    anchor.setAttribute('aria-expanded', 'false');
    // A command that runs now may still move the focus elsewhere.
    anchor.focus();
    window.setTimeout(() => menu.dispose(), 0);
  });
  anchor.setAttribute('aria-expanded', 'true');
  const { left, top, bottom } = anchor.getBoundingClientRect();
  menu.open(left, bottom);
  const box = menu.node.getBoundingClientRect();
  if (box.top < bottom) {
    // Lumino moved it up by its own height, over the element that it belongs to.
    menu.node.style.transform = `translate(${box.left}px, ${Math.max(0, top - box.height)}px)`;
  }
}
