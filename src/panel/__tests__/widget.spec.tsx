import { User } from '@jupyterlab/services';
import { nullTranslator } from '@jupyterlab/translation';
import { framePromise } from '@jupyterlab/testing';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';
import * as React from 'react';

import { PanelSettings } from '../../settings/settings';
import { IPanelContext, usePanel } from '../context';
import { PanelWidget } from '../widget';

jest.mock('../panel', () => ({
  Panel: () => <span>{usePanel().userName}</span>
}));

it('The panel knows the user as soon as the server has named them', async () => {
  const user = {
    identity: null as { username: string } | null,
    userChanged: new Signal<any, void>({})
  };
  const widget = new PanelWidget(
    {
      trans: nullTranslator.load('prime_ext')
    } as unknown as IPanelContext,
    new PanelSettings(),
    user as unknown as User.IManager
  );
  Widget.attach(widget, document.body);
  await framePromise();
  expect(widget.node.textContent).toBe('');
  user.identity = { username: 'ada' };
  user.userChanged.emit();
  await framePromise();
  expect(widget.node.textContent).toBe('ada');
  widget.dispose();
});
