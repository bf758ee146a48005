// SPDX-License-Identifier: MIT
// What the tests put on a local chain. Nobody's money is safe in any of it: everybody may mint, pause and deny.
// Compile with `node compile.mjs` (see there); CI never does.
pragma solidity 0.8.37;

interface IERC1271 { function isValidSignature(bytes32 h, bytes calldata sig) external view returns (bytes4); }

/// A dollar token shaped like USDC: 6 decimals, EIP-3009 in both overloads, EIP-2612, deny list, pause.
/// With a skim it takes a share of each transfer; quiet, it answers a used authorization as PYUSD does:
/// it moves nothing, and does not revert either.
contract TestUSD {
    string public name; string public symbol; string public version; uint8 public constant decimals = 6;
    uint256 public totalSupply; bool public paused; uint256 public skimBps; bool public quiet;
    mapping(address => uint256) public balanceOf;
    mapping(address => mapping(address => uint256)) public allowance;
    mapping(address => mapping(bytes32 => bool)) public authorizationState;
    mapping(address => bool) public isBlacklisted;
    mapping(address => uint256) public nonces;

    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);
    event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce);
    event AuthorizationCanceled(address indexed authorizer, bytes32 indexed nonce);
    event AuthorizationAlreadyUsed(address indexed authorizer, bytes32 indexed nonce);

    bytes32 constant TWA = keccak256("TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)");
    bytes32 constant RWA = keccak256("ReceiveWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)");
    bytes32 constant CAN = keccak256("CancelAuthorization(address authorizer,bytes32 nonce)");
    bytes32 constant PER = keccak256("Permit(address owner,address spender,uint256 value,uint256 nonce,uint256 deadline)");

    constructor(string memory n, string memory s, string memory v) { name = n; symbol = s; version = v; }
    /// for code put at a well-known address with anvil_setCode, where no constructor has run
    function init(string memory n, string memory s, string memory v) external { require(bytes(name).length == 0); name = n; symbol = s; version = v; }

    function DOMAIN_SEPARATOR() public view returns (bytes32) {
        return keccak256(abi.encode(keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"),
            keccak256(bytes(name)), keccak256(bytes(version)), block.chainid, address(this)));
    }
    function mint(address to, uint256 v) external { totalSupply += v; balanceOf[to] += v; emit Transfer(address(0), to, v); }
    function setPaused(bool p) external { paused = p; }
    function setSkim(uint256 bps) external { skimBps = bps; }
    function setQuiet(bool q) external { quiet = q; }
    function setBlacklisted(address a, bool b) external { isBlacklisted[a] = b; }

    function _move(address f, address t, uint256 v) internal {
        require(!paused, "paused");
        require(!isBlacklisted[f] && !isBlacklisted[t], "blacklisted");
        require(t != address(0), "to zero");
        require(balanceOf[f] >= v, "transfer amount exceeds balance");
        uint256 skim = v * skimBps / 10000;
        balanceOf[f] -= v; balanceOf[t] += v - skim; balanceOf[address(0xdead)] += skim;
        emit Transfer(f, t, v - skim);
    }
    function transfer(address t, uint256 v) external returns (bool) { _move(msg.sender, t, v); return true; }
    function approve(address s, uint256 v) external returns (bool) { allowance[msg.sender][s] = v; emit Approval(msg.sender, s, v); return true; }
    function transferFrom(address f, address t, uint256 v) external returns (bool) {
        require(allowance[f][msg.sender] >= v, "allowance"); allowance[f][msg.sender] -= v; _move(f, t, v); return true; }

    function _sigOk(address a, bytes32 h, bytes memory sig) internal view returns (bool) {
        bytes32 d = keccak256(abi.encodePacked(hex"1901", DOMAIN_SEPARATOR(), h));
        if (a.code.length > 0) {
            (bool ok, bytes memory r) = a.staticcall(abi.encodeCall(IERC1271.isValidSignature, (d, sig)));
            return ok && r.length >= 32 && abi.decode(r, (bytes32)) == bytes32(IERC1271.isValidSignature.selector);
        }
        if (sig.length != 65) return false;
        bytes32 r_; bytes32 s_; uint8 v_;
        assembly { r_ := mload(add(sig, 32)) s_ := mload(add(sig, 64)) v_ := byte(0, mload(add(sig, 96))) }
        if (uint256(s_) > 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0 || (v_ != 27 && v_ != 28)) return false;
        address w = ecrecover(d, v_, r_, s_);
        return w != address(0) && w == a;
    }
    function _use(address a, bytes32 n) internal {
        require(!authorizationState[a][n], "authorization is used or canceled"); authorizationState[a][n] = true; emit AuthorizationUsed(a, n); }
    function _auth(bytes32 th, address f, address t, uint256 v, uint256 va, uint256 vb, bytes32 n, bytes memory sig) internal {
        require(block.timestamp > va, "authorization is not yet valid");
        require(block.timestamp < vb, "authorization is expired");
        if (quiet && authorizationState[f][n]) { emit AuthorizationAlreadyUsed(f, n); return; }
        require(!authorizationState[f][n], "authorization is used or canceled");
        require(_sigOk(f, keccak256(abi.encode(th, f, t, v, va, vb, n)), sig), "invalid signature");
        _use(f, n); _move(f, t, v);
    }
    function transferWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, uint8 v, bytes32 r, bytes32 s) external {
        _auth(TWA, from, to, value, validAfter, validBefore, nonce, abi.encodePacked(r, s, v)); }
    function transferWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, bytes memory signature) external {
        _auth(TWA, from, to, value, validAfter, validBefore, nonce, signature); }
    function receiveWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, bytes memory signature) external {
        require(to == msg.sender, "caller must be the payee"); _auth(RWA, from, to, value, validAfter, validBefore, nonce, signature); }
    function cancelAuthorization(address a, bytes32 n, uint8 v, bytes32 r, bytes32 s) external {
        require(!authorizationState[a][n], "authorization is used or canceled");
        require(_sigOk(a, keccak256(abi.encode(CAN, a, n)), abi.encodePacked(r, s, v)), "invalid signature");
        authorizationState[a][n] = true; emit AuthorizationCanceled(a, n); }
    function permit(address o, address s, uint256 v, uint256 d, uint8 v_, bytes32 r_, bytes32 s_) external {
        require(block.timestamp <= d, "permit expired");
        require(_sigOk(o, keccak256(abi.encode(PER, o, s, v, nonces[o]++, d)), abi.encodePacked(r_, s_, v_)), "invalid signature");
        allowance[o][s] = v; emit Approval(o, s, v); }
}

/// Smart-contract wallet: ERC-1271 by one owner key, plus execute.
contract Wallet1271 {
    address public owner;
    constructor(address o) { owner = o; }
    function isValidSignature(bytes32 h, bytes calldata sig) external view returns (bytes4) {
        if (sig.length != 65) return 0xffffffff;
        address w = ecrecover(h, uint8(sig[64]), bytes32(sig[0:32]), bytes32(sig[32:64]));
        return (w != address(0) && w == owner) ? IERC1271.isValidSignature.selector : bytes4(0xffffffff);
    }
    function execute(address to, uint256 value, bytes calldata data) external payable {
        require(msg.sender == owner, "owner"); (bool ok, ) = to.call{value: value}(data); require(ok, "call failed"); }
    receive() external payable {}
}

/// CREATE2 factory of Wallet1271, for counterfactual (ERC-6492) signatures.
contract WalletFactory {
    function predict(address o, bytes32 salt) public view returns (address) {
        return address(uint160(uint256(keccak256(abi.encodePacked(hex"ff", address(this), salt, keccak256(abi.encodePacked(type(Wallet1271).creationCode, abi.encode(o))))))));
    }
    function deploy(address o, bytes32 salt) external returns (address a) {
        a = predict(o, salt); if (a.code.length == 0) new Wallet1271{salt: salt}(o);
    }
}

/// The calls of Multicall3 that payd uses, ABI compatible; tests put its code at the canonical address.
contract Multicall3 {
    struct Call3 { address target; bool allowFailure; bytes callData; }
    struct Result { bool success; bytes returnData; }
    function aggregate3(Call3[] calldata calls) external payable returns (Result[] memory out) {
        out = new Result[](calls.length);
        for (uint256 i; i < calls.length; i++) {
            (out[i].success, out[i].returnData) = calls[i].target.call(calls[i].callData);
            require(out[i].success || calls[i].allowFailure, "Multicall3: call failed");
        }
    }
    function getEthBalance(address a) external view returns (uint256) { return a.balance; }
    function getBlockNumber() external view returns (uint256) { return block.number; }
}

/// A price feed shaped like Chainlink's AggregatorV3.
contract Feed {
    uint8 public decimals; string public description; int256 a; uint256 t; uint80 r;
    constructor(uint8 d, string memory what) { decimals = d; description = what; }
    /// for code put at a well-known address with anvil_setCode, where no constructor has run
    function init(uint8 d, string memory what) external { require(bytes(description).length == 0); decimals = d; description = what; }
    function set(int256 answer, uint256 at) external { a = answer; t = at; r++; }
    function latestRoundData() external view returns (uint80, int256, uint256, uint256, uint80) { return (r, a, t, t, r); }
}
