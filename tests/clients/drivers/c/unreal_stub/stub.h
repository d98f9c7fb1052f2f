// Stand-ins for what clients/c/examples/unreal uses of Unreal: enough to compile it, not to run it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using uint8 = std::uint8_t;
using uint32 = std::uint32_t;
using int32 = std::int32_t;
using TCHAR = char;
#define TEXT(text) text
#define UTF8_TO_TCHAR(text) text
#define TCHAR_TO_UTF8(text) text
#define UE_LOG(category, level, ...) stub_log(__VA_ARGS__)
template <class... Values> void stub_log(const char*, Values...) {}
template <class T> T&& MoveTemp(T& value) { return static_cast<T&&>(value); }
template <class T> using TFunction = std::function<T>;

template <class T> struct TArray
{
	TArray() = default;
	TArray(const T* from, int32 count) : values(from, from + count) {}
	void SetNumUninitialized(int32 count) { values.resize(static_cast<std::size_t>(count)); }
	T* GetData() { return values.data(); }
	const T* GetData() const { return values.data(); }
	int32 Num() const { return static_cast<int32>(values.size()); }
	std::vector<T> values;
};

struct FString
{
	FString(const TCHAR* from) : text(from) {}
	const TCHAR* operator*() const { return text.c_str(); }
	std::string text;
};

enum class ESPMode { ThreadSafe };
template <class T, ESPMode> struct TSharedRef : std::shared_ptr<T> { using std::shared_ptr<T>::shared_ptr; };
template <class T> struct TSharedPtr : std::shared_ptr<T> { bool IsValid() const { return this->get() != nullptr; } };

struct IHttpResponse
{
	int32 GetResponseCode() const { return 0; }
	FString GetHeader(const FString&) const { return ""; }
	const TArray<uint8>& GetContent() const { return content; }
	TArray<uint8> content;
};
struct IHttpRequest;
using FHttpResponsePtr = TSharedPtr<IHttpResponse>;
using FHttpRequestPtr = TSharedPtr<IHttpRequest>;
struct FHttpRequestCompleteDelegate
{
	void BindLambda(std::function<void(FHttpRequestPtr, FHttpResponsePtr, bool)>) {}
};
struct IHttpRequest
{
	void SetVerb(const FString&) {}
	void SetURL(const FString&) {}
	void SetTimeout(float) {}
	void SetHeader(const FString&, const FString&) {}
	void SetContent(TArray<uint8>&&) {}
	FHttpRequestCompleteDelegate& OnProcessRequestComplete() { return complete; }
	bool ProcessRequest() { return true; }
	FHttpRequestCompleteDelegate complete;
};
struct FHttpModule
{
	static FHttpModule& Get() { static FHttpModule module; return module; }
	TSharedRef<IHttpRequest, ESPMode::ThreadSafe> CreateRequest() { return TSharedRef<IHttpRequest, ESPMode::ThreadSafe>(new IHttpRequest); }
};

struct FTickerDelegate
{
	static FTickerDelegate CreateLambda(std::function<bool(float)>) { return {}; }
};
struct FTSTicker
{
	static FTSTicker& GetCoreTicker() { static FTSTicker ticker; return ticker; }
	void AddTicker(const FTickerDelegate&, float) {}
};

struct FTimespan { double GetTotalMilliseconds() const { return 0; } };
struct FDateTime
{
	FDateTime(int32, int32, int32) {}
	static FDateTime UtcNow() { return {1970, 1, 1}; }
	FTimespan operator-(const FDateTime&) const { return {}; }
};
struct FGuid
{
	static FGuid NewGuid() { return {}; }
	uint32 D = 0;
};
