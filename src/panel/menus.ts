import { MenuSvg } from '@jupyterlab/ui-components';
import { CommandRegistry } from '@lumino/commands';

export interface IMenuEntry {
  readonly label: string;
  /** Whether the entry has a check mark. */
  readonly isToggled?: boolean;
  readonly isEnabled?: boolean;
  readonly run: () => void;
}

/** Open a menu below an element, or above it if there is no room; `null` is a separator. */
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
    // The command runs after this and may still move the focus elsewhere.
    anchor.focus();
    window.setTimeout(() => menu.dispose(), 0);
  });
  anchor.setAttribute('aria-expanded', 'true');
  const { left, top, bottom } = anchor.getBoundingClientRect();
  menu.open(left, bottom);
  const box = menu.node.getBoundingClientRect();
  if (box.top < bottom) {
    // Lumino has moved the menu up so that it covers the anchor.
    menu.node.style.transform = `translate(${box.left}px, ${Math.max(0, top - box.height)}px)`;
  }
}
