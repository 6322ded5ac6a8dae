import { User } from '@jupyterlab/services';
import { ReactWidget } from '@jupyterlab/ui-components';
import { Message } from '@lumino/messaging';
import * as React from 'react';

import { PanelSettings } from '../settings/settings';
import { IPanelContext, PanelProvider } from './context';
import { primeIcon } from './icons';
import { Panel } from './panel';

/** The side panel's widget. */
export class PanelWidget extends ReactWidget {
  constructor(
    private readonly _context: Omit<IPanelContext, 'settings' | 'userName'>,
    private readonly _settings: PanelSettings,
    private readonly _user: User.IManager
  ) {
    super();
    this.id = 'jp-prime-panel';
    this.addClass('jp-prime-Panel');
    this.title.icon = primeIcon;
    this.title.caption = this._context.trans.__('Prime');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', this._context.trans.__('Prime agent'));
    _settings.changed.connect(this.update, this);
    // The server may not have named the user yet.
    _user.userChanged.connect(this.update, this);
  }

  protected render(): JSX.Element {
    return (
      <PanelProvider
        value={{
          ...this._context,
          settings: this._settings.value,
          userName: this._user.identity?.username ?? null
        }}
      >
        <Panel />
      </PanelProvider>
    );
  }

  protected onActivateRequest(_: Message): void {
    this.node.querySelector('textarea')?.focus();
  }
}
