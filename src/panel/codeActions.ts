import { addBelowIcon, copyIcon, LabIcon } from '@jupyterlab/ui-components';
import { TranslationBundle } from '@jupyterlab/translation';

import { INotebookView } from './context';

/** Give each block of code in rendered Markdown its buttons: copy, and insert as a cell. */
export function addCodeActions(
  rendered: HTMLElement,
  notebookView: INotebookView,
  trans: TranslationBundle
): void {
  rendered.querySelectorAll('pre').forEach(pre => {
    const code = (pre.textContent ?? '').replace(/\n$/, '');
    const frame = document.createElement('div');
    frame.className = 'jp-prime-Code';
    // Long lines scroll, by key as well.
    pre.tabIndex = 0;
    pre.replaceWith(frame);
    const actions = document.createElement('div');
    actions.className = 'jp-prime-CodeActions';
    actions.append(
      button(copyIcon, trans.__('Copy'), () => {
        void navigator.clipboard.writeText(code);
      })
    );
    // A block without a language is output or prose more often than code.
    if (pre.querySelector('code[class*="language-"]')) {
      actions.append(
        button(addBelowIcon, trans.__('Insert as a cell below'), () => {
          notebookView.insertCell(code);
        })
      );
    }
    frame.append(pre, actions);
  });
}

function button(
  icon: LabIcon,
  label: string,
  onClick: () => void
): HTMLButtonElement {
  const element = document.createElement('button');
  element.type = 'button';
  element.className = 'jp-prime-IconButton';
  element.title = label;
  element.setAttribute('aria-label', label);
  element.addEventListener('click', onClick);
  icon.element({ container: element, tag: 'span' });
  return element;
}
