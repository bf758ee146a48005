// SPDX-License-Identifier: MIT
// Tokens and wallets that payd was not written against. Nobody's money is safe in any of it: everybody may mint.
// Compile with `node compile.mjs` (see there); CI never does. strange.json holds code made from this file and from
// OpenZeppelin Contracts 5.7.0, Copyright (c) Zeppelin Group Ltd, which has the terms of this project's LICENSE (MIT).
pragma solidity 0.8.37;

import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";
import {ERC3009} from "@openzeppelin/contracts/token/ERC20/extensions/draft-ERC3009.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";

/// OpenZeppelin's EIP-3009 as it is: one overload, no DOMAIN_SEPARATOR() but EIP-5267, and custom errors everywhere.
contract OpenDollar is ERC3009 {
    mapping(address => bool) public isFrozen;
    error Frozen(address account);

    constructor() ERC20("Open Dollar", "OPEN") EIP712("Open Dollar", "1") {}
    function decimals() public pure override returns (uint8) { return 6; }
    function mint(address to, uint256 value) external { _mint(to, value); }
    function setFrozen(address account, bool frozen) external { isFrozen[account] = frozen; }
    function _update(address from, address to, uint256 value) internal override {
        if (isFrozen[from]) revert Frozen(from);
        super._update(from, to, value);
    }
}

/// A token as they were made before 2018: its transfers return nothing.
contract MuteDollar {
    string public constant name = "Mute Dollar"; string public constant symbol = "MUTE"; uint8 public constant decimals = 6;
    mapping(address => uint256) public balanceOf;
    event Transfer(address indexed from, address indexed to, uint256 value);

    function mint(address to, uint256 value) external { balanceOf[to] += value; emit Transfer(address(0), to, value); }
    function transfer(address to, uint256 value) external {
        balanceOf[msg.sender] -= value; balanceOf[to] += value; emit Transfer(msg.sender, to, value); }
}

/// A smart wallet of two owners who must both sign, so that a signature of it has 130 bytes.
contract TwoOwners {
    address public first; address public second;
    constructor(address f, address s) { first = f; second = s; }
    function isValidSignature(bytes32 h, bytes calldata sig) external view returns (bytes4) {
        bool good = sig.length == 130 && _by(h, sig[0:65]) == first && _by(h, sig[65:130]) == second;
        return good ? this.isValidSignature.selector : bytes4(0xffffffff);
    }
    function _by(bytes32 h, bytes calldata sig) private pure returns (address) {
        return ecrecover(h, uint8(sig[64]), bytes32(sig[0:32]), bytes32(sig[32:64]));
    }
}
