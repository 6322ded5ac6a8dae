import { User } from '@jupyterlab/services';
import { ReactWidget } from '@jupyterlab/ui-components';
import { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import * as React from 'react';

import { PanelSettings } from '../settings/settings';
import { IPanelContext, PanelProvider } from './context';
import { primeIcon } from './icons';
import { Panel } from './panel';

/** Size in pixels of the corner of the window in which JupyterLab shows notifications. */
const CORNER = 100;

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

  protected onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this._makeRoom();
  }

  protected onAfterHide(message: Message): void {
    super.onAfterHide(message);
    this._makeRoom();
  }

  protected onBeforeDetach(message: Message): void {
    super.onBeforeDetach(message);
    setCovered(0);
  }

  protected onResize(message: Widget.ResizeMessage): void {
    super.onResize(message);
    this._makeRoom();
  }

  /** Make room beside the panel for JupyterLab's notifications, if it is in their corner. */
  private _makeRoom(): void {
    const { left, right, bottom } = this.node.getBoundingClientRect();
    const isInCorner =
      this.isVisible &&
      right > window.innerWidth - CORNER &&
      bottom > window.innerHeight - CORNER;
    setCovered(isInCorner ? window.innerWidth - left : 0);
  }
}

/** Set the width that the panel covers at the right side of the window, for the style sheet. */
function setCovered(width: number): void {
  document.body.style.setProperty('--jp-prime-covered', `${width}px`);
}
