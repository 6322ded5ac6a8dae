import { nullTranslator } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import * as React from 'react';
import { createRoot } from 'react-dom/client';

import { DEFAULT_SETTINGS } from '../../settings/settings';
import { CellCommandIDs } from '../cellCommands';
import { CommandIDs } from '../commands';
import { IPanelContext, PanelProvider } from '../context';
import { HelpSheet } from '../helpSheet';

(globalThis as any).IS_REACT_ACT_ENVIRONMENT = true;

it('The help shows the keys that the user has given to the commands', () => {
  const commands = new CommandRegistry();
  for (const [command, key] of [
    [CommandIDs.open, 'Ctrl Alt K'],
    [CellCommandIDs.fix, 'Alt Shift E']
  ]) {
    commands.addKeyBinding({ command, keys: [key], selector: 'body' });
  }
  const host = document.body.appendChild(document.createElement('div'));
  const root = createRoot(host);
  const context = {
    trans: nullTranslator.load('prime_ext'),
    settings: DEFAULT_SETTINGS,
    commands
  } as unknown as IPanelContext;
  React.act(() =>
    root.render(
      <PanelProvider value={context}>
        <HelpSheet />
      </PanelProvider>
    )
  );
  const keys = [...host.querySelectorAll('kbd')].map(node => node.textContent);
  expect(keys).toContain('Ctrl+Alt+K');
  expect(keys).toContain('Alt+Shift+E');
  // The user has removed the keys of this command.
  expect(host.textContent).not.toContain('ask about the selected cells');
  React.act(() => root.unmount());
  host.remove();
});
